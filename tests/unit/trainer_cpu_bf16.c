/* Repeated seeds, resumed runs, one and two threads, on the CPU backend in bf16. */
#include "tests/support/runs.h"

int main(void) { return run_backend_main("cpu", "bf16"); }
