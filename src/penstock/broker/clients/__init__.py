"""What a broker does for those who connect: lets them in, takes their messages, answers their questions."""
