// Everything answers from here on.
performance.mark("ready");
