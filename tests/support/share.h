/* With sanitizers, which are several times slower, tests run one of TEST_SHARE cases. */
#ifndef D9_TESTS_SHARE_H
#define D9_TESTS_SHARE_H

#ifdef __SANITIZE_ADDRESS__
enum { TEST_SHARE = 5 };
#else
enum { TEST_SHARE = 1 };
#endif

#endif
