# accuracy.tsv: each run a dot; accuracy_means.tsv: mean and 95% interval; accuracy_published.tsv: diamonds.
set xlabel (sweep ? 'epochs trained' : 'epoch')
set ylabel 'accuracy, %'
set key bottom right Right noreverse
set offsets graph 0.03, graph 0.03, graph 0.06, 0
set autoscale xfix
set yrange [accuracy_low:*]
if (exists('accuracy_target')) {
    set arrow 1 from graph 0, first accuracy_target to graph 1, first accuracy_target nohead linecolor rgb quiet dashtype 3
    set label 1 sprintf('target %g', accuracy_target) at graph 0.005, first accuracy_target left offset 0,0.6 textcolor rgb quiet
}
set style fill transparent solid 0.16 noborder
# a band that begins below the axis would be cut crookedly: it begins where it is inside
plot for [s=1:series] 'accuracy_means.tsv' using (column('rank') == s && column('low') >= accuracy_low ? column('epoch') : NaN):'low':'high' \
         with filledcurves linecolor rgb hue[s] notitle, \
     'accuracy.tsv' using (column('rank') == 0 ? column('epoch') : NaN):'accuracy' \
         with points pointtype 7 pointsize 0.25 linecolor rgb pale notitle, \
     'accuracy_means.tsv' using (column('rank') == 0 ? column('epoch') : NaN):'mean' \
         with lines linecolor rgb pale notitle, \
     for [s=1:series] 'accuracy.tsv' using (column('rank') == s ? column('epoch') : NaN):'accuracy' \
         with points pointtype 6 pointsize 0.45 linewidth 1.2 linecolor rgb hue[s] notitle, \
     for [s=1:series] 'accuracy_means.tsv' using (column('rank') == s ? column('epoch') : NaN):'mean' \
         with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 2 pointtype mark[s] pointsize 0.6 title name[s], \
     for [s=0:series] 'accuracy_published.tsv' using (column('rank') == s ? column('epoch') : NaN):'accuracy' \
         with points pointtype 12 pointsize 1.4 linewidth 1.6 linecolor rgb (s > 0 ? hue[s] : quiet) notitle, \
     NaN with lines linecolor rgb pale title (others > 0 ? sprintf('%d others', others) : '')
