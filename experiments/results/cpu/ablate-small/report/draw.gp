# One plot as SVG and PNG: gnuplot -c draw.gp NAME, in the folder that holds NAME.gp, settings.gp and the data.
load 'settings.gp'
plot_name = ARG1
plot_height = exists('height_'.plot_name) ? value('height_'.plot_name) : 420

do for [kind in "svg png"] {
    if (kind eq "svg") {
        set terminal svg size 900,plot_height dynamic noenhanced font 'sans-serif,13' name plot_name
    } else {
        set terminal pngcairo size 1800,2*plot_height noenhanced font 'sans,10' fontscale 2 linewidth 2 pointscale 2 background rgb '#ffffff'
    }
    set output plot_name.'.'.kind
    load 'style.gp'
    load plot_name.'.gp'
    unset output
    reset
}
