/* Finds the fake in the backend's module, which may instead be the real one: see fake.h. */
#include "tests/cuda_backend/fake.h"
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

d9_fake *fake_find(void) {
    d9_fake *(*get)(void) = NULL;
    void *module = dlopen(D9_MODULE_PATH, RTLD_NOW | RTLD_LOCAL);
    void *symbol = module ? dlsym(module, "d9_fake_get") : NULL;
    memcpy(&get, &symbol, sizeof symbol);
    return get ? get() : NULL;
}
