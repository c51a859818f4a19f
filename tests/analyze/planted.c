/* A mistake that each analyser must find: tests/analyze.sh would be silent as well where one of them looked at nothing. */
int planted(int n);
int planted(int n) {
    int *nowhere = 0;
    return n > 3 ? *nowhere : n;
}
