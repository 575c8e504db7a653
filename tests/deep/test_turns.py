import threading

from prgd.reproduce.vgg.turns import Turns


def test_one_alone_waits_for_all_and_keeps_all_away():
    turns, seen, lock = Turns(), [], threading.Lock()
    active = {"working": 0, "alone": 0}

    def note(kind, change):
        with lock:
            active[kind] += change
            seen.append(dict(active))

    def work():
        with turns.working():
            for step in range(60):
                note("working", 1)
                note("working", -1)
                turns.pause()
                if step == 20:
                    with turns.alone():
                        note("alone", 1)
                        note("alone", -1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in threads)
    alone = [state for state in seen if state["alone"]]
    assert len(alone) == 4
    assert all(state == {"working": 0, "alone": 1} for state in alone)


def test_alone_without_working_first():
    turns = Turns()
    with turns.alone():
        pass
    with turns.working():
        turns.pause()
