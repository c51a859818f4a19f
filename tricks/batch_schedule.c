/* batch_schedule: from a share of the run on, a step takes several batches at once.
 *
 * `batches` has a number for each share of `from`: {from: [0.5, 0.8], batches: [2, 4]} takes one batch per step, then
 * two from half of the steps on, then four. Epochs, schedules and intervals in steps still count batches, so they
 * keep their places. If fewer batches are left in an epoch, or before the next change, than a step takes, each is a
 * step of its own. train.lr multiplies the mean gradient, so a step of two batches moves as far as a step of one: the
 * learning rate per image falls. With train.decoupled the learning rate is per image, and a step of two batches moves
 * twice as far. */
#include "tricks/trick.h"

typedef struct batch_schedule {
    d9_real_list from;
    d9_int_list batches;
} batch_schedule;

static const d9_option options[] = {
    {"from", D9_OPTION_REALS, offsetof(batch_schedule, from), "[0.5]", 0, 0.99, NULL,
     "shares of the run's steps at which the number of batches per step changes, ascending; before the first it is 1"},
    {"batches", D9_OPTION_INTS, offsetof(batch_schedule, batches), "[2]", 1, D9_MAX_BATCHES, NULL,
     "batches per step from then on, a number for each share"},
    {0}};

static d9_status on_phases(d9_context *context, const void *opaque, d9_phase_changes *changes) {
    d9_status status = D9_OK;
    const batch_schedule *self = opaque;
    if (self->from.count != self->batches.count)
        return d9_fail(context, D9_USAGE, "tricks.batch_schedule: from has %d entries and batches has %d",
                       self->from.count, self->batches.count);
    for (int i = 0; i < self->from.count; i++) {
        if (i > 0 && self->from.values[i] <= self->from.values[i - 1])
            return d9_fail(context, D9_USAGE, "tricks.batch_schedule.from: %g comes behind %g", self->from.values[i],
                           self->from.values[i - 1]);
        D9_TRY(d9_phase_change_add(
            context, changes,
            (d9_phase_change){"batch_schedule", self->from.values[i], .batches = self->batches.values[i]}));
    }
done:
    return status;
}

const d9_trick d9_trick_batch_schedule = {
    .name = "batch_schedule",
    .doc = "larger batches from a share of the run on: fewer, less noisy steps, like a lower learning rate",
    .source = "Smith et al. 2018, arXiv 1711.00489; with images of other sizes: Howard et al. 2018, fast.ai's "
              "DAWNBench entry",
    .effect = "ResNet-50 on ImageNet to 76.1% in under 30 minutes on a TPU pod (arXiv 1711.00489)",
    .options = options,
    .options_size = sizeof(batch_schedule),
    .on_phases = on_phases,
};
