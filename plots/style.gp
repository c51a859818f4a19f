# Settings of all plots. Each series has a colour (Okabe and Ito's, which most colour-blind readers can distinguish), a
# dash pattern and a point, so that grey prints are legible. The page replaces these colours in dark mode.
set encoding utf8
set minussign
set datafile separator tab
set datafile commentschars ''
set datafile missing NaN

array hue[6] = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#56b4e9', '#e69f00']
array dash[6] = [1, 2, 4, 5, 3, 1]
array mark[6] = [7, 5, 9, 11, 13, 4]
ink = '#1a1a1a'
quiet = '#5c5c5c'
pale = '#b0b0b0'

set border 3 linecolor rgb quiet linewidth 1
set tics nomirror scale 0.5 textcolor rgb ink
set xlabel textcolor rgb ink
set ylabel textcolor rgb ink
set grid ytics linecolor rgb '#e2e2df' linewidth 1 linetype 1 dashtype 1
set key top left Left reverse noenhanced textcolor rgb ink samplen 4 spacing 1.1

# An axis of accuracies, logarithmic in the error plus 0.1%, so that 100% has a place: 80 to 90% is about as long as
# 90 to 95%.
bend(accuracy) = -log10(100.1 - (accuracy < 100 ? accuracy : 100))
unbend(place) = 100.1 - 10**(-place)
bent_tics = "100 90 99 95 98 80 50 99.5 97 0 70 30 99.8 93 85 60 98.5 96"
# `text` in at most `most` characters
shorten(text, most) = strlen(text) > most ? text[1:most - 1].'…' : text
within(value, low, high) = value < low ? low : value > high ? high : value # NaN stays
