# Plots precision.tsv of experiments/precision.sh by depth, each precision relative to f32: speed with the range of its
# rounds (left), largest batch (right).
set multiplot layout 1,2
depth(d) = d == 18 ? 1 : d == 34 ? 2 : d == 50 ? 3 : d == 101 ? 4 : 5
set xtics ('18' 1, '34' 2, '50' 3, '101' 4, '152' 5)
set xlabel 'layers of ResNet'
set xrange [0.5:5.5]
set yrange [0:*]
set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead linecolor rgb quiet dashtype 3
set key bottom right Right noreverse
at(s) = depth(column('depth')) + 0.08 * (s - 0.5 * (series + 1))
set title "f32's seconds a step over its own" textcolor rgb ink
plot for [s=1:series] 'precision.tsv' using (strcol('precision') eq name[s] ? at(s) : NaN):'ratio':'ratio_low':'ratio_high' \
         with yerrorbars linecolor rgb hue[s] pointtype mark[s] pointsize 0.8 linewidth 1.6 title name[s]
set title 'largest batch in '.memory." GiB over f32's" textcolor rgb ink
plot for [s=1:series] 'precision.tsv' using (strcol('precision') eq name[s] ? at(s) : NaN):'batch_ratio' \
         with points linecolor rgb hue[s] pointtype mark[s] pointsize 0.9 linewidth 1.6 title name[s]
unset multiplot
