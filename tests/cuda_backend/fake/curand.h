/* The version of cuRAND, which is all that module.c uses of it. */
#pragma once

#define CURAND_VER_MAJOR 10
#define CURAND_VER_MINOR 4
#define CURAND_VER_PATCH 0
