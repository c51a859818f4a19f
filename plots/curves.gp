# curves.tsv: training loss and accuracy after each epoch, one line a run.
set multiplot layout 1,2 margins 0.065,0.985,0.13,0.90 spacing 0.075
set xlabel 'epoch'
set key at graph 0.98,0.97 top right Right noreverse

set title 'training loss' textcolor rgb ink
plot for [s=0:0] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'train_loss' \
         with linespoints linecolor rgb pale linewidth 1 pointtype 7 pointsize 0.2 notitle, \
     for [s=1:series] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'train_loss' \
         with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 1.2 pointtype mark[s] pointsize 0.25 notitle, \
     for [s=1:series] NaN with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 1.8 pointtype mark[s] pointsize 0.5 title name[s], \
     NaN with lines linecolor rgb pale title (others > 0 ? sprintf('%d others', others) : '')

set title 'accuracy, %'
set key off
if (exists('target')) {
    set arrow 1 from graph 0, first target to graph 1, first target nohead linecolor rgb quiet dashtype 3
    set label 1 sprintf('target %g', target) at graph 0.5, first target center offset 0,0.6 textcolor rgb quiet
}
plot for [s=0:0] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'accuracy' \
         with linespoints linecolor rgb pale linewidth 1 pointtype 7 pointsize 0.2 notitle, \
     for [s=1:series] 'curves.tsv' using (column('rank') == s ? column('epoch') : NaN):'accuracy' \
         with linespoints linecolor rgb hue[s] dashtype dash[s] linewidth 1.2 pointtype mark[s] pointsize 0.25 notitle
unset multiplot
