# The y axis of accuracies from bent_low to bent_high on the scale bend() of style.gp, bent_height SVG pixels high. A
# tic of bent_tics is left out if it is outside of the range or its label would overlap that of an earlier one.
set nonlinear y via bend(y) inverse unbend(y)
set ytics ()
bent_line = 17 * (bend(bent_high) - bend(bent_low)) / bent_height
bent_shown = ''
do for [tic in bent_tics] {
    room = real(tic) >= bent_low && real(tic) <= bent_high
    do for [other in bent_shown] { room = room && abs(bend(real(tic)) - bend(real(other))) >= bent_line }
    if (room) { bent_shown = bent_shown.' '.tic; set ytics add (tic real(tic)) }
}
