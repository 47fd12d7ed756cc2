"""`cdcm doctor`: looks at everything that a run needs, and says how to mend what is wrong; without Spark."""
