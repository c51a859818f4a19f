# confusion.tsv: percent of the images of a row's class that are classified as the column's class. A cell of mistakes is
# darker the more frequent they are. Cells without mistakes and the diagonal have the colour of the page. Numbers on
# coloured cells keep their colour in dark mode, as the cells do.
set xrange [-0.5:confusion_last + 0.5]
set yrange [confusion_last + 0.5:-0.5]
set xlabel 'predicted class'
set ylabel 'true class'
if (confusion_turned) { set xtics rotate by 35 right; set bmargin confusion_turned } # names wider than a cell
unset key
unset grid
unset border
unset colorbox
set tics scale 0
set cbrange [0:confusion_most]
set palette defined (0 '#f4f4f2', 1 '#9cc3dc', 2 '#0072b2', 3 '#003a5c')
set style fill solid 1 noborder
figure(kind, form) = strcol('ink') eq kind ? sprintf(form, column('percent')) : ''
plot 'confusion.tsv' using 'column':'row':(column('column') - 0.48):(column('column') + 0.48):(column('row') - 0.46):(column('row') + 0.46):(strcol('ink') eq 'right' || column('percent') == 0 ? NaN : column('percent')):xtic(shorten(strcol(4), class_max)):ytic(shorten(strcol(2), class_max)) \
         with boxxyerror linecolor palette, \
     '' using 'column':'row':(figure('right', '%.1f')) with labels textcolor rgb ink, \
     '' using 'column':'row':(figure('dark', '%.1f')) with labels textcolor rgb '#101010', \
     '' using 'column':'row':(figure('light', '%.1f')) with labels textcolor rgb '#fefefe'
