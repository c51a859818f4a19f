# step.tsv: milliseconds of one training step by rule, the slowest first. On a narrow screen the label of a row is above
# its bar.
set xlabel 'milliseconds a step'
set yrange [step_rows + 0.6:(narrow ? 0.2 : 0.4)]
set xrange [0:*]
set offsets 0, graph (narrow ? 0.02 : 0.16), 0, 0
set border 1
set ytics scale 0
if (narrow) { set lmargin 2; set rmargin 2; set ytics format '' } else { set lmargin step_label + 1 }
set grid noytics xtics
unset key
set style fill solid 0.85 noborder
top(row) = row + (narrow ? 0.02 : -0.34)
names = narrow ? '' : ':ytic(2)'
told(row) = narrow ? strcol('rule').'  '.strcol('words') : strcol('words')
plot 'step.tsv' using (0):'row':(0):'milliseconds':(top(column('row'))):(column('row') + 0.34)@names \
         with boxxyerror linecolor rgb hue[1], \
     '' using (narrow ? 0 : column('milliseconds')):(column('row') - (narrow ? 0.22 : 0)):(told(0)) with labels left offset (narrow ? 0 : 0.8),0 textcolor rgb ink
