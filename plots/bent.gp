# The y axis of accuracies bent_low to bent_high, bent as style.gp says, where it is bent_height units high. Of
# bent_tics it has those with a line of text to themselves: a tic gives way to one that comes before it.
set nonlinear y via bend(y) inverse unbend(y)
set ytics ()
bent_line = 17 * (bend(bent_high) - bend(bent_low)) / bent_height
bent_shown = ''
do for [tic in bent_tics] {
    room = real(tic) >= bent_low && real(tic) <= bent_high
    do for [other in bent_shown] { room = room && abs(bend(real(tic)) - bend(real(other))) >= bent_line }
    if (room) { bent_shown = bent_shown.' '.tic; set ytics add (tic real(tic)) }
}
