/* main for test programs without their own. */
#include "tests/support/test.h"

int main(void) { return test_run(NULL); }
