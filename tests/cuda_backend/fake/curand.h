/* The version of the fake cuRAND, of which module.c uses nothing else. */
#ifndef D9_FAKE_CURAND_H
#define D9_FAKE_CURAND_H

#define CURAND_VER_MAJOR 10
#define CURAND_VER_MINOR 4
#define CURAND_VER_PATCH 0

#endif
