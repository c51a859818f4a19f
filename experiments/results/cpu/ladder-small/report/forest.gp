# forest.tsv: one row a difference, with its interval; filled where it is told from zero.
set xlabel 'difference in accuracy, percentage points'
set xrange [forest_low:forest_high]
set yrange [forest_rows + 0.7:0.3]
set lmargin forest_label + 1
set rmargin 26
set border 1
set ytics scale 0
set xtics forest_tick
set grid noytics xtics
unset key
set arrow 1 from 0, graph 0 to 0, graph 1 nohead back linecolor rgb ink linewidth 1.4
plot 'forest.tsv' using 'difference':'row':ytic(2) with points pointtype 7 pointsize 0 linecolor rgb ink, \
     '' using 'difference':'row':'low':'high' with xerrorbars pointtype 7 pointsize 0 linewidth 1.6 linecolor rgb hue[1], \
     '' using (column('seen') == 1 ? column('difference') : NaN):'row' with points pointtype 7 pointsize 0.9 linecolor rgb hue[1], \
     '' using (column('seen') == 0 ? column('difference') : NaN):'row' with points pointtype 7 pointsize 0.9 linecolor rgb '#ffffff', \
     '' using (column('seen') == 0 ? column('difference') : NaN):'row' with points pointtype 6 pointsize 0.9 linewidth 1.6 linecolor rgb hue[1], \
     '' using (column('seen') >= 0 ? forest_high : NaN):'row':'words' with labels left offset 1.5,0 textcolor rgb ink
