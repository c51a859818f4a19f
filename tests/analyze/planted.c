/* A null dereference that each analyser must find: one that read no file would also report nothing. */
int planted(int n);
int planted(int n) {
    int *nowhere = 0;
    return n > 3 ? *nowhere : n;
}
