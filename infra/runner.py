print('I live')
