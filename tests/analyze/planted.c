/* A mistake that each analyser must find: tests/analyze.sh would also be silent if one of them looked at nothing. */
int planted(int n);
int planted(int n) {
    int *nowhere = 0;
    return n > 3 ? *nowhere : n;
}
