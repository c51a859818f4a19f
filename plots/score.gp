# MEASURE.tsv (accuracy.tsv): each run a dot; MEASURE_means.tsv: mean and, of three or more runs, its 95% interval as a
# band; MEASURE_published.tsv: diamonds. The legend is below the plot.
set xlabel (sweep ? 'epochs trained' : 'epoch')
set ylabel epoch_axis
legend = 22 * (narrow ? legend_entries : legend_rows) # its height
set bmargin at screen (68.0 + legend) / plot_height
set key at screen (narrow ? 0.01 : 0.5), screen (6.0 + legend) / plot_height
if (narrow) { set key top left vertical maxcols 1 }
if (!narrow) { set key top center horizontal maxcols legend_columns width -legend_trim }
if (!legend_entries) { unset key }
set xrange [score_first:score_last]
if (score_last < 13) { set xtics 1 }
if (score_bent) {
    bent_low = score_low
    bent_high = score_high
    bent_height = plot_height - 87.0 - legend
    load 'bent.gp'
}
set yrange [score_low:score_high]
if (exists('target')) {
    set arrow 1 from graph 0, first target to graph 1, first target nohead linecolor rgb quiet dashtype 3
    set label 1 sprintf('target %g', target) at graph 0.005, first target left offset 0,0.6 textcolor rgb quiet
}
set style fill transparent solid 0.16 noborder
inside(value) = within(value, score_low, score_high)
plot for [s=1:series] measure.'_means.tsv' using (column('rank') == s ? column('epoch') : NaN):(inside(column('low'))):(inside(column('high'))) \
         with filledcurves linecolor rgb hue[s] notitle, \
     measure.'.tsv' using (column('rank') == 0 ? column('epoch') : NaN):(column(measure)) \
         with points pointtype 7 pointsize 0.25 linecolor rgb pale notitle, \
     measure.'_means.tsv' using (column('rank') == 0 ? column('epoch') : NaN):'mean' \
         with lines linecolor rgb pale notitle, \
     for [s=1:series] measure.'.tsv' using (column('rank') == s ? column('epoch') : NaN):(column(measure)) \
         with points pointtype 6 pointsize 0.45 linewidth 1.2 linecolor rgb hue[s] notitle, \
     for [s=1:series] measure.'_means.tsv' using (column('rank') == s ? column('epoch') : NaN):'mean' \
         with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 2 pointtype mark[s] pointsize 0.6 title shorten(name[s], narrow ? 42 : 90), \
     for [s=0:series] measure.'_published.tsv' using (column('rank') == s ? column('epoch') : NaN):(column(measure)) \
         with points pointtype 12 pointsize 1.4 linewidth 1.6 linecolor rgb (s > 0 ? hue[s] : quiet) notitle, \
     NaN with lines linecolor rgb pale title (others > 0 ? sprintf('%d others', others) : '')
