# trials.tsv: a dot for each trial, by the rungs it has finished; frontier.tsv: the line through the best.
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
rungs = frontier_rungs < 6 ? frontier_rungs : 6
plot 'frontier.tsv' using 'teraflop':(column(measure)) with steps linecolor rgb quiet linewidth 1.4 title 'frontier', \
     for [r=1:rungs] 'trials.tsv' using (column('rung') == r ? column('teraflop') : NaN):(column(measure)) \
         with points pointtype mark[r] pointsize 0.7 linecolor rgb hue[r] title sprintf('finished rung %d', r), \
     'frontier.tsv' using 'teraflop':(column(measure)):(strcol('trial')[7:*]) \
         with labels offset 0,0.8 textcolor rgb ink notitle
