# trials.tsv: a dot for each trial that finished a rung, its colour and shape by the number of rungs that it finished;
# frontier.tsv: the line through the best trials. A trial's number that would overlap an earlier number is left out.
set xlabel 'TFLOP of training and evaluation'
set ylabel measure_axis
set key bottom right
set xrange [frontier_first:frontier_last]
if (frontier_bent) {
    bent_low = frontier_low
    bent_high = frontier_high
    bent_height = plot_height - 65.0
    load 'bent.gp'
}
set yrange [frontier_low:frontier_high]
if (exists('target')) { if (target > frontier_low && target < frontier_high) {
    set arrow 1 from graph 0, first target to graph 1, first target nohead linecolor rgb quiet dashtype 3
} }
level(accuracy) = frontier_bent ? bend(accuracy) : accuracy
label_width = 30.0 * (frontier_last - frontier_first) / (narrow ? 380 : 828)
label_height = 17.0 * (level(frontier_high) - level(frontier_low)) / (plot_height - 65.0)
label_x = frontier_first - label_width
label_y = level(frontier_low)
numbered(x, y) = abs(x - label_x) < label_width && abs(level(y) - label_y) < label_height ? NaN : (label_x = x, label_y = level(y), y)
shown(rung) = rung < 6 ? rung : 6
rungs = shown(frontier_rungs)
plot 'frontier.tsv' using 'teraflop':(column(measure)) with steps linecolor rgb quiet linewidth 1.4 title 'frontier', \
     for [r=1:rungs] 'trials.tsv' using (shown(column('rung')) == r ? column('teraflop') : NaN):(column(measure)) \
         with points pointtype mark[r] pointsize 0.7 linecolor rgb hue[r] \
         title sprintf('finished rung %d', r).(r == 6 && frontier_rungs > 6 ? ' or more' : ''), \
     'frontier.tsv' using 'teraflop':(numbered(column('teraflop'), column(measure))):(strcol('trial')[7:*]) \
         with labels offset 0,0.8 textcolor rgb ink notitle
