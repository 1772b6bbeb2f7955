// From here on, all of the page works.
performance.mark("ready");
