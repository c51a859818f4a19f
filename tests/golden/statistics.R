# Results that R computes for the functions of engine/report/statistics.h: `Rscript statistics.R > statistics.tsv`.
#
# A row is FUNCTION<TAB>arguments<TAB>results: numbers with 17 digits, separated by spaces. A list is its length, then its values.
# Making the file needs R 4 (Debian's r-base-core); the tests need only the file. The last two rows of power and
# the last two of shifted_above (to be put back after this script has run) were computed without R, in 40 digits by the series of AS 243 and by integrating over the chi distribution, which agree to 30 digits.
set.seed(9)
options(warn = 2)

numbers <- function(...) paste(sprintf("%.17g", c(...)), collapse = " ")
row <- function(name, arguments, results) cat(paste0(paste(name, arguments, results, sep = "\t"), "\n"))
counted <- function(values) c(length(values), values)

for (a in c(0.5, 1, 2.5, 30, 2000)) for (b in c(0.5, 3, 47.25, 5000)) {
    for (x in c(1e-6, 0.01, 0.3, 0.5, 0.9, 0.999)) row("beta", numbers(x, a, b), numbers(pbeta(x, a, b)))
    for (p in c(0.001, 0.025, 0.5, 0.975)) row("beta_inverse", numbers(p, a, b), numbers(qbeta(p, a, b)))
}
for (freedom in c(1, 1.37, 2, 4, 9.5, 29, 200, 98765)) {
    for (t in c(0, 1e-3, 0.5, 1.96, -3, 12, 80)) row("two_sided", numbers(t, freedom), numbers(2 * pt(-abs(t), freedom)))
    for (p in c(1e-6, 0.01, 0.05, 0.1, 0.5, 0.99)) row("quantile", numbers(p, freedom), numbers(qt(p / 2, freedom, lower.tail = FALSE)))
    for (shift in c(0, 0.3, 2, 3.7)) for (t in c(0, 1, 2.5, 6))
        row("shifted_above", numbers(t, freedom, shift), numbers(pt(t, freedom, shift, lower.tail = FALSE)))
}

# Accuracies in percent, as real runs have them: a standard deviation of 0.1 to 0.3 among 2 to 34 seeds.
for (n in c(2, 3, 5, 10, 30)) for (level in c(0.95, 0.99)) {
    a <- round(rnorm(n, 94.1, 0.15), 3)
    b <- round(rnorm(n, 94.0, 0.11), 3)
    c <- round(rnorm(n + 4, 93.9, 0.3), 3)
    describe <- function(test) c(test$conf.int[1], test$conf.int[2], test$stderr, test$parameter, test$p.value)
    row("describe", numbers(counted(a)), numbers(mean(a), sd(a), min(a), max(a)))
    row("mean", numbers(level, counted(a - 94)), numbers(mean(a - 94), describe(t.test(a - 94, conf.level = level))))
    row("welch", numbers(level, counted(a), counted(c)), numbers(mean(a) - mean(c), describe(t.test(a, c, conf.level = level))))
    row("paired", numbers(level, counted(a), counted(b)), numbers(mean(a - b), describe(t.test(a, b, paired = TRUE, conf.level = level))))
}

for (n in c(1, 2, 5, 10, 50)) for (met in unique(c(0, 1, n %/% 2, n))) for (level in c(0.95, 0.99))
    row("chance", numbers(met, n, level), numbers(met / n, binom.test(met, n, conf.level = level)$conf.int))

for (p in list(0.03, c(0.01, 0.04), c(0.04, 0.01, 0.03, 0.005), c(0.2, 0.2, 0.9, 1e-7, 0.01, 0.01), round(runif(20), 3) ^ 3))
    row("holm", numbers(counted(p)), numbers(p.adjust(p, "holm")))

for (design in 0:1) for (deviation in c(0.02, 0.11, 0.15, 0.4)) {
    type <- c("two.sample", "paired")[design + 1]
    for (n in c(2, 5, 30)) row("power", numbers(design, n, 0.1, deviation, 0.05),
        numbers(power.t.test(n = n, delta = 0.1, sd = deviation, type = type)$power))
    enough <- 2 # the least whole n with a power of 0.8; power.t.test itself would give a fractional n
    while (power.t.test(n = enough, delta = 0.1, sd = deviation, type = type)$power < 0.8) enough <- enough + 1
    row("seeds", numbers(design, 0.1, deviation, 0.05, 0.8), numbers(enough))
}

# Far from the null hypothesis: shifts of 14.1 and 11.3, whose first Poisson weights are below 1e-27; and negative shifts.
for (deviation in c(0.01, 0.0125)) row("power", numbers(1, 2, 0.1, deviation, 0.05),
    numbers(power.t.test(n = 2, delta = 0.1, sd = deviation, type = "paired")$power))
row("shifted_above", numbers(1, 4, -2), numbers(pt(1, 4, -2, lower.tail = FALSE)))
row("shifted_above", numbers(2.5, 2, -1), numbers(pt(2.5, 2, -1, lower.tail = FALSE)))

epochs <- c(10, 20, 30, 50, 80)
accuracy <- c(93.1, 94.6, 95.05, 95.4, 95.55)
for (level in c(93.1, 93.4, 94.6, 95, 95.3, 95.55))
    row("reach", numbers(level, counted(epochs), counted(accuracy)), numbers(approx(accuracy, epochs, level)$y))
