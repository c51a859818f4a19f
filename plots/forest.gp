# forest.tsv: one row per difference and its interval; its dot is filled if significant. On a narrow screen, and if
# names are long, the lines of forest_lines.tsv are above the bar of a row.
above_bar = narrow || forest_above
set xlabel (narrow ? difference_axis_narrow : difference_axis)
set xrange [forest_low:forest_high]
set yrange [forest_rows + (above_bar ? 0.5 : 0.7):(above_bar ? 0.5 : 0.3)]
set border 1
set ytics scale 0
if (above_bar) { set lmargin 2; set rmargin 2; set tmargin at screen 1 - 12.0 / plot_height; set bmargin at screen 62.0 / plot_height; set ytics format '' } else { set lmargin forest_label + 1; set rmargin 31 }
set xtics forest_tick
set grid noytics xtics
unset key
set arrow 1 from 0, graph 0 to 0, graph 1 nohead back linecolor rgb (above_bar ? pale : ink) linewidth 1.4 # behind text
row_height = above_bar ? 1.0 * forest_row : 27.0
place(row) = row + (above_bar ? 0.5 - 14 / row_height : 0)
line_place(row, line) = place(row) - (17.5 + 17 * line) / row_height
inside(value) = within(value, forest_low, forest_high)
names = above_bar ? '' : ':ytic(2)'
words = above_bar ? "'forest_lines.tsv' using (forest_low):(line_place(column('row'), column('left'))):'line'" \
                  : "'forest.tsv' using (column('seen') >= 0 ? forest_high : NaN):'row':'words'"
plot 'forest.tsv' using 'difference':(place(column('row')))@names with points pointtype 7 pointsize 0 linecolor rgb ink, \
     '' using 'difference':(place(column('row'))):(inside(column('low'))):(inside(column('high'))) with xerrorbars pointtype 7 pointsize 0 linewidth 1.6 linecolor rgb hue[1], \
     '' using (column('seen') == 1 ? column('difference') : NaN):(place(column('row'))) with points pointtype 7 pointsize 0.9 linecolor rgb hue[1], \
     '' using (column('seen') == 0 ? column('difference') : NaN):(place(column('row'))) with points pointtype 7 pointsize 0.9 linecolor rgb '#ffffff', \
     '' using (column('seen') == 0 ? column('difference') : NaN):(place(column('row'))) with points pointtype 6 pointsize 0.9 linewidth 1.6 linecolor rgb hue[1], \
     @words with labels left offset (above_bar ? 0 : 1.5),0 textcolor rgb ink
