/* Descriptions of devices, with which cuDNN can be asked without a GPU (cudnn.h): one card of each architecture that a
 * release supports, from data sheets and the table of compute capabilities in CUDA's programming guide. No value was
 * read from a device. */
#pragma once

#include "backends/cuda/cudnn.h"
#include "tests/support/test.h"
#include <dlfcn.h>
#include <stdio.h>

typedef struct test_device {
    const char *name;
    int version;                                              /* compute capability: 75 means 7.5 */
    int multiprocessors, block_shared_bytes, threads, blocks; /* threads and blocks per multiprocessor */
    int64_t memory_bytes;
    int cache_bytes, clock_khz, memory_clock_khz;
} test_device;

static const test_device test_devices[] = {
    {"Tesla T4", 75, 40, 65536, 1024, 16, 16106127360, 4194304, 1590000, 5001000},
    {"NVIDIA A100-SXM4-80GB", 80, 108, 166912, 2048, 32, 85899345920, 41943040, 1410000, 1593000},
    {"NVIDIA GeForce RTX 3060", 86, 28, 101376, 1536, 16, 12884901888, 3145728, 1777000, 7501000},
    {"NVIDIA GeForce RTX 4090", 89, 128, 101376, 1536, 24, 25769803776, 75497472, 2520000, 10501000},
    {"NVIDIA H200", 90, 132, 232448, 2048, 32, 150754820096, 62914560, 1980000, 3201000},
    {"NVIDIA B200", 100, 148, 232448, 2048, 32, 193273528320, 132644864, 1965000, 3996000},
    {"NVIDIA GeForce RTX 5090", 120, 170, 101376, 1536, 24, 34359738368, 100663296, 2407000, 14001000},
};
enum { TEST_DEVICES = sizeof test_devices / sizeof *test_devices, TEST_H200 = 4 };

/* Makes a target with the device's properties; free target->properties with cudnnBackendDestroyDescriptor. */
static inline d9_status test_device_open(d9_context *context, const test_device *d, d9_cudnn_target *target) {
    char json[1024];
    snprintf(
        json, sizeof json,
        "{\"deviceVer\":%d,\"multiProcessorCount\":%d,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
        "\"maxSharedMemoryPerBlockOptin\":%d,\"reservedSharedMemoryPerBlock\":%d,\"maxRegistersPerSM\":65536,"
        "\"maxCtasPerSM\":%d,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,\"regsPerBlock\":65536,"
        "\"totalGlobalMem\":%lld,\"smClockRateKHz\":%d,\"l2CacheSize\":%d,\"maxBlockSize\":[1024,1024,64],"
        "\"memClockRateKHz\":%d,\"maxGridSize\":[2147483647,65535,65535],\"supportCoopLaunch\":1,\"pciDeviceId\":0,"
        "\"isTccDriver\":0,\"cudaDeviceId\":0,\"driverVer\":13000,\"deviceName\":\"%s\"}",
        10 * d->version, d->multiprocessors, d->block_shared_bytes, d->version < 80 ? 0 : 1024, d->blocks, d->threads,
        (long long)d->memory_bytes, d->clock_khz, d->cache_bytes, d->memory_clock_khz, d->name);
    *target = (d9_cudnn_target){0};
    return d9_cudnn_parse_properties(context, json, &target->properties);
}

/* Describes the first convolution from node *n on, moves *n past it, and returns its node. NULL: none is left. */
static inline const d9_node *test_next_conv(const d9_program *program, const d9_graph *graph, d9_node_id *n,
                                            d9_cudnn_description *description) {
    while (*n < graph->node_count) {
        const d9_node *node = &graph->nodes[(*n)++];
        const d9_site site = {.program = program, .graph = graph, .nodes = {node}, .node_count = 1};
        if (node->op != D9_OP_CONV && node->op != D9_OP_CONV_BACKWARD_DATA && node->op != D9_OP_CONV_BACKWARD_WEIGHT)
            continue;
        const d9_conv_geometry g = d9_conv_geometry_of(&site);
        assert_true(d9_conv_types_fit(&site, &g));
        *description = d9_cudnn_describe(&g);
        return node;
    }
    return NULL;
}

/* Disables leak detection: cuDNN opens and closes libraries that do not free their memory (72 KiB per graph with 9.19),
 * and leaks cannot be traced to a library that is closed. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }

/* Opens NVRTC for the rest of the program. Otherwise cuDNN 9.19 opens and closes it for every list of choices: 9 ms
 * each, nine tenths of these tests' time. */
static inline void test_keep_nvrtc_open(void) {
    char name[32];
    snprintf(name, sizeof name, "libnvrtc.so.%d", CUDART_VERSION / 1000);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    (void)library;
}
