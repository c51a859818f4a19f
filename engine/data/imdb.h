/* The 50,000 reviews of IMDB in the layout of their archive, FOLDER/{train,test}/{neg,pos}/NUMBER_RATING.txt, also
 * inside FOLDER/aclImdb; anything else in it is ignored. A published "file" is the reviews of a folder in the order of
 * their numbers, a newline after each. Source: Maas et al. 2011, Learning Word Vectors for Sentiment Analysis. */
#pragma once

#include "data/source.h"

extern const d9_published d9_imdb_published;
