/* A seed twice, and stopped and resumed, on oneDNN in bf16. */
#include "tests/support/runs.h"

int main(void) { return run_backend_main("onednn", "bf16"); }
