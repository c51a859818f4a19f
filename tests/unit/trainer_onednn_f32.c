/* Repeated seeds, resumed runs, one and two threads, with oneDNN's convolutions in f32. */
#include "tests/support/runs.h"

int main(void) { return run_backend_main("onednn", "f32"); }
