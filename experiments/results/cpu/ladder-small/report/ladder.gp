# ladder.tsv: accuracy and seconds of each step, measured (filled) beside published (hollow), where `published` is set.
first = 0.01 * ladder_label + 0.02
set multiplot
set yrange [ladder_rows + 0.7:0.3]
set border 1
set ytics scale 0
set grid xtics noytics
set tmargin at screen 1 - 82.0 / plot_height
set bmargin at screen 38.0 / plot_height

set lmargin at screen first
set rmargin at screen first + 0.56 * (0.97 - first)
set label 1 'accuracy, %' at graph 0,1 left offset 0,0.8 textcolor rgb ink
set xtics ladder_tick
set offsets graph 0.05, graph 0.05, 0, 0
if (exists('target')) { set arrow 1 from target, graph 0 to target, graph 1 nohead back linecolor rgb quiet dashtype 3 }
set key at screen 0.97, screen 1 - 6.0 / plot_height top right horizontal maxrows 1 Left reverse noautotitle
filled = "using 'accuracy':'row':'low':'high':ytic(2) with xerrorbars pointtype 7 pointsize 0.8 linewidth 1.6 linecolor rgb hue[1] title 'measured, with 95% interval'"
hollow = "with points pointtype 12 pointsize 1.4 linewidth 1.5 linecolor rgb hue[2]"
if (exists('published')) {
    plot 'ladder.tsv' using 'published_accuracy':'row' @hollow title 'published', '' @filled
} else {
    plot 'ladder.tsv' @filled
}

unset arrow 1
unset key
set lmargin at screen first + 0.60 * (0.97 - first)
set rmargin at screen 0.97
set label 1 exists('published') ? 'training seconds, logarithmic' : 'training seconds'
if (exists('published')) { set logscale x } else { set xrange [0:*] }
set xtics autofreq
set ytics format ''
filled = "using 'seconds':'row' with points pointtype 7 pointsize 0.8 linecolor rgb hue[1]"
if (exists('published')) {
    plot 'ladder.tsv' using 'published_seconds':'row' @hollow, '' @filled
} else {
    plot 'ladder.tsv' @filled
}
unset multiplot
