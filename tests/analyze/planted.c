/* A null dereference that each analyser must find, because an analyser that reads no file also reports nothing. */
int planted(int n);
int planted(int n) {
    int *nowhere = 0;
    return n > 3 ? *nowhere : n;
}
