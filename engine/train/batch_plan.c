/* Plans only the nodes of a list that make the batch, in a copy of the list whose values keep their offsets. Draws the
 * sheet of augmented images with such plans. */
#include "train/session.h"
#include "core/system.h"
#include "data/preview.h"
#include "graph/op.h"

static bool mixes(const d9_node *node) { return node->op == D9_OP_MIX || node->op == D9_OP_PASTE; }

/* True for nodes that mix or paste images, that draw, augment, gather or read tokens in the order of the epoch, or that
 * read a stream. False for nodes that use an order computed in the step, as for the images that a second network chose.
 */
static bool makes_batch(const d9_graph *graph, const d9_node *node) {
    const d9_op_info *info = d9_op_info_of(node->op);
    /* A draw reads only the order, and a stream only its tokens; the order is the second input of the others. */
    return info->batch && (mixes(node) || graph->values[node->inputs[info->inputs > 1]].kind == D9_VALUE_STORED);
}

d9_status d9_batch_plan(d9_session *session, const d9_graph *list, d9_graph *graph, d9_plan **plan) {
    d9_status status;
    int kept = 0;
    D9_TRY(d9_graph_copy(session->context, list, graph));
    for (int n = 0; n < graph->node_count; n++) {
        if (!makes_batch(graph, &graph->nodes[n])) continue;
        graph->nodes[kept++] = graph->nodes[n];
        if (graph->nodes[n].op == D9_OP_AUGMENT || mixes(&graph->nodes[n])) graph->input = graph->nodes[n].outputs[0];
    }
    graph->node_count = kept;
    D9_TRY(d9_session_plan(session, graph, plan));
done:
    return status;
}

/* ---- the sheet ---- */

/* Copies the middle of a stored training image as RGB; the middle has the size of the network's images. */
static void copy_middle(const d9_dataset *data, int64_t image, uint8_t *rgb) {
    const int64_t height = d9_train_height(data), width = d9_train_width(data), stored = data->grey ? 1 : 3;
    const uint8_t *pixels = data->train.images + (size_t)image * d9_train_sample_bytes(data);
    for (int64_t y = 0; y < data->height; y++) {
        const int64_t at = (y + (height - data->height) / 2) * width + (width - data->width) / 2;
        d9_sample_to_rgb(data, pixels + at * stored, data->width, rgb + y * data->width * 3);
    }
}

/* Adds the name of a training image's class; of an image with several labels, their names, separated by commas. */
static void add_class_name(const d9_dataset *data, int64_t image, d9_text *text) {
    const int32_t label = data->train.labels[image];
    if (!data->multi_label) d9_text_add(text, "%s", data->class_names[label]);
    for (int64_t c = 0; data->multi_label && c < data->classes; c++)
        if ((uint32_t)label >> c & 1) d9_text_add(text, "%s%s", text->size ? ", " : "", data->class_names[c]);
}

/* Width of the column of class names, in sheet pixels. */
static int names_width(const d9_session *session, int rows) {
    int widest = 0;
    for (int row = 0; row < rows; row++) {
        d9_text text;
        d9_text_init(session->context, &text);
        add_class_name(session->dataset, row, &text);
        const int width = d9_sheet_name_width(d9_text_get(&text));
        widest = width > widest ? width : widest;
        d9_text_free(&text);
    }
    return widest;
}

static d9_status put_headings_and_names(d9_session *session, d9_sheet *sheet) {
    d9_status status = D9_OK;
    d9_text text;
    d9_text_init(session->context, &text);
    for (int column = 0; column < sheet->columns; column++) {
        d9_text_add(&text, column ? "epoch %d" : "original", column);
        D9_TRY(d9_text_status(&text));
        d9_sheet_put_heading(sheet, column, d9_text_get(&text));
        d9_text_free(&text);
    }
    for (int row = 0; row < sheet->rows; row++) {
        add_class_name(session->dataset, row, &text);
        D9_TRY(d9_text_status(&text));
        d9_sheet_put_name(sheet, row, d9_text_get(&text));
        d9_text_free(&text);
    }
done:
    d9_text_free(&text);
    return status;
}

/* Fills a tile of the sheet with an image (height, width, 3) of a step, whose nearest pixels are repeated if it is
 * smaller. */
static void enlarge(const double *image, const d9_shape *batch, const d9_sheet *sheet, float *tile) {
    const int64_t height = batch->d[1], width = batch->d[2];
    for (int64_t y = 0; y < sheet->tile_height; y++)
        for (int64_t x = 0; x < sheet->tile_width; x++) {
            const double *pixel = image + (y * height / sheet->tile_height * width + x * width / sheet->tile_width) * 3;
            for (int c = 0; c < 3; c++) *tile++ = (float)pixel[c];
        }
}

/* Fills a column with the first images of the batch of step `step`, made by the list that runs in this step. */
static d9_status fill_column(d9_session *session, int64_t step, int column, d9_sheet *sheet) {
    d9_status status;
    d9_context *context = session->context;
    const d9_dataset *data = session->dataset;
    d9_graph graph;
    d9_plan *plan = NULL;
    double *images = NULL;
    float *tile = NULL;
    d9_graph_init(&graph);
    D9_TRY(d9_batch_plan(session, d9_program_list(&session->program, step), &graph, &plan));
    const d9_value *made = &graph.values[graph.input];
    const int64_t pixels = made->shape.d[1] * made->shape.d[2] * 3;
    D9_TRY(D9_ALLOCATE(context, d9_shape_count(&made->shape), "a batch of images", &images));
    D9_TRY(D9_ALLOCATE(context, (int64_t)sheet->tile_height * sheet->tile_width * 3, "an image", &tile));
    D9_TRY(session->backend->run(context, plan, step));
    D9_TRY(session->backend->sync(context, session->device));
    D9_TRY(d9_session_read_value(session, made, images));
    for (int row = 0; row < sheet->rows; row++) {
        enlarge(images + row * pixels, &made->shape, sheet, tile);
        d9_sheet_put_reals(sheet, row, column, tile, data->mean, data->std);
    }
done:
    d9_release(context, images);
    d9_release(context, tile);
    if (plan) session->backend->plan_free(context, plan);
    d9_graph_free(context, &graph);
    return status;
}

static d9_status fill_sheet(d9_session *session, d9_sheet *sheet) {
    d9_status status;
    uint8_t *rgb = NULL;
    D9_TRY(D9_ALLOCATE(session->context, (int64_t)sheet->tile_height * sheet->tile_width * 3, "an image", &rgb));
    D9_TRY(d9_session_repeat_batch(session, D9_BUFFER_ORDER));
    for (int row = 0; row < sheet->rows; row++) {
        copy_middle(session->dataset, row, rgb);
        d9_sheet_put_bytes(sheet, row, 0, rgb);
    }
    for (int epoch = 0; epoch < D9_PREVIEW_EPOCHS; epoch++)
        D9_TRY(fill_column(session, epoch * session->program.steps_per_epoch, epoch + 1, sheet));
done:
    d9_release(session->context, rgb);
    return status;
}

d9_status d9_batch_sheet_make(d9_session *session, d9_sheet *sheet) {
    d9_status status;
    const d9_extent *extent = &session->program.extent;
    const int64_t batch = d9_extent_own_batch(extent);
    const int rows = batch < D9_BATCH_SHEET_IMAGES ? (int)batch : D9_BATCH_SHEET_IMAGES;
    const d9_sheet_options options = {.tile_height = (int)extent->height,
                                      .tile_width = (int)extent->width,
                                      .top = D9_SHEET_HEADING,
                                      .left = names_width(session, rows)};
    D9_TRY(d9_sheet_make(session->context, rows, D9_PREVIEW_EPOCHS + 1, &options, sheet));
    D9_TRY(fill_sheet(session, sheet));
    D9_TRY(put_headings_and_names(session, sheet));
done:
    return status;
}
