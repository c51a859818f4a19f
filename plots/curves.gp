# curves.tsv: training loss and, if the records have it, the loss of the evaluations (dotted); one line per run. The
# legend is below the plot.
legend = legend_entries ? 22 * (narrow ? legend_entries : legend_rows) : 0 # its height
dot = curves_last < 2 ? 0.7 : 0.25 # a point that no line leads to must be seen
set bmargin at screen (68.0 + legend) / plot_height
set key at screen (narrow ? 0.01 : 0.5), screen (6.0 + legend) / plot_height
if (narrow) { set key top left vertical maxcols 1 } else { set key top center horizontal maxcols legend_columns width -legend_trim }
if (!legend_entries) { unset key }
set xlabel 'epoch'
set ylabel eval_losses ? 'training loss; dotted: evaluation' : 'training loss'
set xrange [curves_first:curves_last]
if (curves_last < 13) { set xtics 1 }

plot for [s=0:0] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'train_loss' \
         with linespoints linecolor rgb pale linewidth 1 pointtype 7 pointsize 0.8 * dot notitle, \
     for [s=1:series] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'train_loss' \
         with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 1.2 pointtype mark[s] pointsize dot notitle, \
     for [s=0:(eval_losses ? series : -1)] 'curves.tsv' \
         using (column('rank') == s ? column('epoch') : NaN):(column('eval_loss')) \
         with linespoints linecolor rgb (s ? hue[s] : pale) dashtype '.' linewidth 1.6 pointtype 6 pointsize 1.6 * dot notitle, \
     for [s=1:series] NaN with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 1.8 pointtype mark[s] pointsize 0.5 title shorten(name[s], narrow ? 42 : 90), \
     NaN with lines linecolor rgb pale title (others > 0 ? sprintf('%d others', others) : '')
