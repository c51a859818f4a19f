/* The table tests/cuda_model/coverage.tsv: every kernel and every rule of the CUDA backend with the tests that ran it.
 * It is made by the tests and committed, so that a change of it is seen in review. */
#ifndef D9_TESTS_CUDA_COVERAGE_H
#define D9_TESTS_CUDA_COVERAGE_H

/* `rows`: lines that begin with `kind` and a tab, in any order. Fails the running test unless they are the table's
 * lines of that kind; then they lie in the build folder, and what to do is said. */
void coverage_check(const char *kind, const char *rows);

#endif
