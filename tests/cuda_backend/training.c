/* A seed twice, and stopped and resumed, on the CUDA backend over the CPU model of the kernels, in fp16: with the
 * guard. */
#include "tests/support/runs.h"

int main(void) { return run_backend_main("cuda", "fp16"); }
