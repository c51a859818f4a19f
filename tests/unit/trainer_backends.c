/* Repeated seeds and resumed runs on a backend; on cpu also one and two threads.
 *
 * usage: test_unit trainer_backends BACKEND PRECISION */
#include "tests/support/runs.h"
#include "tests/support/test.h"

TEST_MAIN(count, arguments) { return count == 3 ? run_backend_main(arguments[1], arguments[2]) : 2; }
