/* With the address sanitizer, which is several times slower, some tests run only one in TEST_SHARE cases. */
#pragma once

#if defined(__has_feature)
#define D9_HAS_FEATURE(feature) __has_feature(feature)
#else
#define D9_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || D9_HAS_FEATURE(address_sanitizer)
enum { TEST_SHARE = 5 };
#else
enum { TEST_SHARE = 1 };
#endif
