# curves.tsv: training loss, loss of the evaluations (dotted) if the records have it and, if runs were
# evaluated during training, the score after each epoch; one line per run.
# The two plots are side by side, on a narrow screen one below the other, with the legend below them.
legend = 8 + 22 * (narrow ? legend_entries : legend_rows) # its height
beside = scores && !narrow
bottom = (60.0 + legend) / plot_height
middle = scores && narrow ? bottom + (0.97 - bottom) / 2 : bottom # where the lower one ends
left = narrow ? 0.13 : 0.065
dot = curves_last < 2 ? 0.7 : 0.25 # a point that no line leads to must be seen
set multiplot
set tmargin at screen (narrow ? 1 - 44.0 / plot_height : 0.90)
set bmargin at screen (scores && narrow ? middle + 56.0 / plot_height : bottom)
set lmargin at screen left
set rmargin at screen (beside ? 0.4875 : 0.985)
set xlabel 'epoch'
set xrange [curves_first:curves_last]
if (curves_last < 13) { set xtics 1 }
set key off

set title eval_losses ? 'loss; dotted: of the evaluation' : 'training loss' textcolor rgb ink
plot for [s=0:0] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'train_loss' \
         with linespoints linecolor rgb pale linewidth 1 pointtype 7 pointsize 0.8 * dot, \
     for [s=1:series] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'train_loss' \
         with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 1.2 pointtype mark[s] pointsize dot, \
     for [s=0:(eval_losses ? series : -1)] 'curves.tsv' \
         using (column('rank') == s ? column('epoch') : NaN):(column('eval_loss')) \
         with linespoints linecolor rgb (s ? hue[s] : pale) dashtype '.' linewidth 1.6 pointtype 6 pointsize 1.6 * dot

if (scores) {
    if (beside) { set lmargin at screen 0.5625 }
    if (narrow) { set tmargin at screen middle - 56.0 / plot_height; set bmargin at screen bottom }
    set rmargin at screen 0.985
    set title epoch_axis
    if (curves_bent) {
        bent_low = curves_low
        bent_high = curves_high
        bent_height = plot_height * (narrow ? middle - 56.0 / plot_height - bottom : 0.9 - bottom)
        load 'bent.gp'
    }
    set yrange [curves_low:curves_high]
    if (exists('target')) {
        set arrow 1 from graph 0, first target to graph 1, first target nohead linecolor rgb quiet dashtype 3
        set label 1 sprintf('target %g', target) at graph 0.5, first target center offset 0,0.6 textcolor rgb quiet
    }
    plot for [s=0:0] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):(column(measure)) \
             with linespoints linecolor rgb pale linewidth 1 pointtype 7 pointsize 0.8 * dot, \
         for [s=1:series] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):(column(measure)) \
             with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 1.2 pointtype mark[s] pointsize dot
}

# The legend below both, in an empty plot.
unset arrow 1
unset label 1
unset title
unset xlabel
unset border
unset tics
unset nonlinear y
set lmargin at screen (narrow ? 0.01 : left)
set rmargin at screen 0.985
set bmargin at screen 0
set tmargin at screen 1.0 * legend / plot_height
set xrange [0:1]
set yrange [0:1]
if (narrow) { set key center left vertical maxcols 1 } else { set key center center horizontal maxcols legend_columns width -legend_trim }
plot for [s=1:series] NaN with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 1.8 pointtype mark[s] pointsize 0.5 title name[s], \
     NaN with lines linecolor rgb pale title (others > 0 ? sprintf('%d others', others) : '')
unset multiplot
