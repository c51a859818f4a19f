/* The main of test programs that need none of their own. */
#include "tests/support/test.h"

int main(void) { return test_run(NULL); }
