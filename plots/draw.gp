# Draws one plot as SVG and PNG: gnuplot -d -c draw.gp NAME, in the folder with the .gp files and the data. If
# settings.gp has a height for narrow screens, also as NAME-narrow.svg. gnuplot -d -c draw.gp NAME pdf draws NAME.pdf
# alone. -d: without the settings of ~/.gnuplot.
load 'settings.gp'
plot_name = ARG1
wide_height = exists('height_'.plot_name) ? value('height_'.plot_name) : 420

do for [kind in (exists('ARG2') ? ARG2 : 'svg png narrow')] {
    narrow = kind eq "narrow"
    if (narrow && !exists('height_'.plot_name.'_narrow')) { break }
    plot_height = narrow ? value('height_'.plot_name.'_narrow') : wide_height
    if (kind eq "png") {
        set terminal pngcairo size 1800,2*plot_height noenhanced font 'sans,10' fontscale 2 linewidth 2 pointscale 2 background rgb '#ffffff'
    } else {
        set terminal svg size (narrow ? 450 : 900),plot_height dynamic noenhanced font 'sans-serif,13' name plot_name
    }
    if (kind eq "pdf") { set terminal pdfcairo size 9,0.01*plot_height noenhanced font 'sans,9.4' }
    set output plot_name.(narrow ? '-narrow.svg' : '.'.kind)
    load 'style.gp'
    load plot_name.'.gp'
    unset output
    reset
}
