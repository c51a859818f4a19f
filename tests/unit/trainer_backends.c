/* Repeated seeds, resumed runs, one and two threads, on a backend.
 *
 * usage: test_trainer_backends BACKEND PRECISION */
#include "tests/support/runs.h"

int main(int count, char **arguments) { return count == 3 ? run_backend_main(arguments[1], arguments[2]) : 2; }
