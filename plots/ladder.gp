# ladder.tsv: score and seconds of each step, measured (filled) and, if `published` is set, published (hollow). On a
# narrow screen only the score, with the label of a row above its bar.
first = narrow ? 0.02 : 0.01 * ladder_label + 0.02
last = narrow ? 0.97 : first + 0.56 * (0.97 - first) # right edge of the scores' plot
set multiplot
set yrange [ladder_rows + (narrow ? 0.5 : 0.7):0.3]
set border 1
set ytics scale 0
set grid xtics noytics
set tmargin at screen 1 - 82.0 / plot_height
set bmargin at screen 38.0 / plot_height

set lmargin at screen first
set rmargin at screen last
set label 1 measure_axis at graph 0,1 left offset 0,0.8 textcolor rgb ink
set xtics ladder_tick
set xrange [ladder_low:ladder_high]
if (exists('target')) { if (target > ladder_low && target < ladder_high) { set arrow 1 from target, graph 0 to target, graph 1 nohead back linecolor rgb quiet dashtype 3 } }
set key at screen 0.97, screen 1 - 6.0 / plot_height top right horizontal maxrows (narrow ? 2 : 1) Left reverse noautotitle
place(row) = row + (narrow ? 0.18 : 0)
inside(value) = within(value, ladder_low, ladder_high)
filled = "using (column(measure)):(place(column('row'))):(inside(column('low'))):(inside(column('high')))".(narrow ? "" : ":ytic(shorten(strcol(2), label_max))")." with xerrorbars pointtype 7 pointsize 0.8 linewidth 1.6 linecolor rgb hue[1] title 'measured, with 95% interval'"
hollow = "with points pointtype 12 pointsize 1.4 linewidth 1.5 linecolor rgb hue[2]"
labels = "using (narrow ? ladder_low : NaN):(column('row') - 0.2):(shorten(strcol('label'), label_max)) with labels left textcolor rgb ink"
if (exists('published')) {
    plot 'ladder.tsv' using (column('published_'.measure)):(place(column('row'))) @hollow title 'published', '' @filled, '' @labels
} else {
    plot 'ladder.tsv' @filled, '' @labels
}

# Defined here, because gnuplot expands @NAME when it reads a block, before it executes the block's first line.
times = "using 'seconds':'row' with points pointtype 7 pointsize 0.8 linecolor rgb hue[1]"
if (!narrow) {
    unset arrow 1
    unset key
    set lmargin at screen first + 0.60 * (0.97 - first)
    set rmargin at screen 0.97
    set label 1 exists('published') ? 'training seconds, logarithmic' : 'training seconds'
    if (exists('published')) { set autoscale x; set logscale x } else { set xrange [0:*] }
    set offsets graph 0.05, graph 0.05, 0, 0
    set xtics autofreq
    set ytics format ''
    if (exists('published')) {
        plot 'ladder.tsv' using 'published_seconds':'row' @hollow, '' @times
    } else {
        plot 'ladder.tsv' @times
    }
}
unset multiplot
