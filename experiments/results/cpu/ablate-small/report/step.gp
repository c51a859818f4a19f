# step.tsv: milliseconds of one training step by rule, the slowest first.
set xlabel 'milliseconds a step'
set yrange [step_rows + 0.6:0.4]
set xrange [0:*]
set offsets 0, graph 0.16, 0, 0
set lmargin step_label + 1
set border 1
set ytics scale 0
set grid noytics xtics
unset key
set style fill solid 0.85 noborder
plot 'step.tsv' using (0):'row':(0):'milliseconds':(column('row') - 0.34):(column('row') + 0.34):ytic(2) \
         with boxxyerror linecolor rgb hue[1], \
     '' using 'milliseconds':'row':'words' with labels left offset 0.8,0 textcolor rgb ink
