# curves.tsv: training loss and, where runs were evaluated on the way, accuracy after each epoch; one line a run.
legend = 8 + 22 * legend_rows # its height
set multiplot
set tmargin at screen 0.90
set bmargin at screen (60.0 + legend) / plot_height
set lmargin at screen 0.065
set rmargin at screen (accuracies ? 0.4875 : 0.985)
set xlabel 'epoch'
set key off

set title 'training loss' textcolor rgb ink
plot for [s=0:0] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'train_loss' \
         with linespoints linecolor rgb pale linewidth 1 pointtype 7 pointsize 0.2, \
     for [s=1:series] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'train_loss' \
         with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 1.2 pointtype mark[s] pointsize 0.25

if (accuracies) {
    set lmargin at screen 0.5625
    set rmargin at screen 0.985
    set title 'accuracy, %'
    if (exists('target')) {
        set arrow 1 from graph 0, first target to graph 1, first target nohead linecolor rgb quiet dashtype 3
        set label 1 sprintf('target %g', target) at graph 0.5, first target center offset 0,0.6 textcolor rgb quiet
    }
    plot for [s=0:0] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'accuracy' \
             with linespoints linecolor rgb pale linewidth 1 pointtype 7 pointsize 0.2, \
         for [s=1:series] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'accuracy' \
             with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 1.2 pointtype mark[s] pointsize 0.25
}

# The legend, below both: a plot with nothing else in it.
unset arrow 1
unset label 1
unset title
unset xlabel
unset border
unset tics
set lmargin at screen 0.065
set rmargin at screen 0.985
set bmargin at screen 0
set tmargin at screen 1.0 * legend / plot_height
set xrange [0:1]
set yrange [0:1]
set key center center horizontal maxcols legend_columns width -legend_trim
plot for [s=1:series] NaN with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 1.8 pointtype mark[s] pointsize 0.5 title name[s], \
     NaN with lines linecolor rgb pale title (others > 0 ? sprintf('%d others', others) : '')
unset multiplot
