/* Where everything takes several times as long, a test tries one case of so many. */
#ifndef D9_TESTS_SHARE_H
#define D9_TESTS_SHARE_H

#ifdef __SANITIZE_ADDRESS__
enum { TEST_SHARE = 5 };
#else
enum { TEST_SHARE = 1 };
#endif

#endif
