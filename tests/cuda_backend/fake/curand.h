/* The version of the fake cuRAND, of which module.c uses nothing else. */
#pragma once

#define CURAND_VER_MAJOR 10
#define CURAND_VER_MINOR 4
#define CURAND_VER_PATCH 0
