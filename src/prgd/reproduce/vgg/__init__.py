"""The experiment behind Figure 5b: VGG-16 on CIFAR-10 as a queue of runs."""
