/* dawn9 devices: lists every backend with its device, or why it is unavailable. */
#include "backends/backend.h"
#include "cli/cli.h"
#include "core/process.h"
#include "models/model.h"

typedef struct devices_options {
    d9_flag_integer threads;
    bool json;
} devices_options;

static const d9_flag flags[] = {
    {"threads", D9_FLAG_INTEGER, offsetof(devices_options, threads), "N", .minimum = 0, .maximum = 4096,
     .doc = "0: one per physical core this process may use"},
    {"json", D9_FLAG_SWITCH, offsetof(devices_options, json), .doc = "print JSON"},
    {.type = D9_FLAG_END},
};

/* The networks for which `precision: auto` takes the preferred precision; null: all. */
static json_t *preferred_for(const d9_device_info *info) {
    if (!info->preferred_if_accurate) return json_null();
    json_t *names = json_array();
    for (int i = 0; d9_model_at(i); i++)
        if (d9_model_is_accurate_in_bf16(d9_model_at(i)))
            json_array_append_new(names, json_string(d9_model_at(i)->name));
    return names;
}

static void print_device(d9_cli *cli, const char *name, const d9_device_info *info) {
    d9_cli_print(cli, "%-10s %s, %s, %d thread%s; precisions", name, info->name, info->isa, info->threads,
                 d9_text_plural(info->threads));
    for (int p = 0; p < D9_PRECISIONS; p++)
        if (info->precision[p]) d9_cli_print(cli, " %s", d9_precision_at(p)->name);
    d9_cli_print(cli, info->version[0] ? "; %s\n" : "\n", info->version);
    if (!info->preferred_why[0]) return;
    d9_cli_print(cli, "%-10s precision auto selects %s", "", d9_precision_at(info->preferred_precision)->name);
    json_t *names = preferred_for(info), *network;
    size_t i;
    json_array_foreach(names, i, network) d9_cli_print(cli, i ? ", %s" : " for %s", json_string_value(network));
    if (json_is_array(names)) d9_cli_print(cli, ", otherwise f32");
    json_decref(names);
    d9_cli_print(cli, ": %s\n", info->preferred_why);
}

static json_t *device_json(const char *name, const d9_device_info *info) {
    json_t *list = json_array();
    for (int p = 0; p < D9_PRECISIONS; p++)
        if (info->precision[p]) json_array_append_new(list, json_string(d9_precision_at(p)->name));
    return json_pack("{s:s, s:b, s:s, s:s, s:s, s:i, s:I, s:o, s:s, s:s, s:o}", "backend", name, "present", 1, "device",
                     info->name, "isa", info->isa, "version", info->version, "threads", info->threads, "memory_bytes",
                     (json_int_t)info->memory_bytes, "precisions", list, "preferred_precision",
                     d9_precision_at(info->preferred_precision)->name, "preferred_why", info->preferred_why,
                     "preferred_for", preferred_for(info));
}

static d9_status run(d9_cli *cli, const void *options) {
    const devices_options *chosen = options;
    const int threads = d9_threads_limit(&cli->context, chosen->threads.value, 1);
    json_t *rows = json_array();
    const char *name;
    for (int i = 0; (name = d9_backend_name_at(i)); i++) {
        d9_device_info info = {0};
        bool present = d9_backend_describe(&cli->context, name, threads, &info) == D9_OK;
        if (chosen->json)
            json_array_append_new(rows, present ? device_json(name, &info)
                                                : json_pack("{s:s, s:b, s:o}", "backend", name, "present", 0, "why",
                                                            d9_cli_json_text(cli, cli->context.message)));
        else if (present)
            print_device(cli, name, &info);
        else
            d9_cli_print(cli, "%-10s absent: %s\n", name, cli->context.message);
        d9_context_clear(&cli->context); /* an unavailable backend is not an error here */
    }
    if (chosen->json) d9_cli_print_json(cli, json_incref(rows));
    json_decref(rows);
    return D9_OK;
}

static const d9_example examples[] = {
    {"backends and devices of this machine", "dawn9 devices"},
    {0},
};

const d9_command d9_command_devices = {
    .name = "devices",
    .doc = "List the backends with device and precisions, or why one is unavailable",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(devices_options),
    .run = run,
};
