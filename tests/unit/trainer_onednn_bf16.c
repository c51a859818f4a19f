/* Repeated seeds, resumed runs, one and two threads, with oneDNN's convolutions in bf16. */
#include "tests/support/runs.h"

int main(void) { return run_backend_main("onednn", "bf16"); }
